# What the shells get is at least a script of theirs, and knows every command.
spectool completions bash >bash && sh -n bash 2>/dev/null || bash -n bash
for shell in zsh fish; do spectool completions $shell >$shell; done
for command in $(spectool --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    grep -q "    $command)" bash && grep -q "'$command:" zsh && grep -q -- "-a $command " fish ||
        echo "$command is missing"
done
COMP_WORDS='' && bash -c '. ./bash; COMP_WORDS=(spectool create --qu); COMP_CWORD=2; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool create --quantize q); COMP_CWORD=3; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool de); COMP_CWORD=1; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool help ev); COMP_CWORD=2; _spectool; echo ${COMPREPLY[@]}
    COMP_WORDS=(spectool run --draft-depth a); COMP_CWORD=3; _spectool; echo ${COMPREPLY[@]}'
