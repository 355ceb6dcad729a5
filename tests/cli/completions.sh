# Each completion script is valid for its shell and completes every command.
spectool completions bash >bash && sh -n bash 2>/dev/null || bash -n bash
for shell in zsh fish; do spectool completions $shell >$shell; done
for command in $(spectool --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -vx help); do
    grep -q "    $command)" bash && grep -q "'$command:" zsh && grep -q -- "-a $command " fish ||
        echo "$command is missing"
done
grep -q "'help:" zsh && grep -q -- '-a help ' fish || echo 'help is missing'
COMP_WORDS='' && bash -c '. ./bash; COMP_WORDS=(spectool create --qu); COMP_CWORD=2; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool create --quantize q); COMP_CWORD=3; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool de); COMP_CWORD=1; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool h); COMP_CWORD=1; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool help ev); COMP_CWORD=2; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool run --draft-depth a); COMP_CWORD=3; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool run --kv-type =); COMP_CWORD=3; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool run --kv-type = f); COMP_CWORD=4; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool run --think = m); COMP_CWORD=4; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool run --think o); COMP_CWORD=3; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool run --think --ke); COMP_CWORD=3; _spectool; echo ${COMPREPLY[@]}'
