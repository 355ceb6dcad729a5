# Renders conversations as prompts, with templates from every kind of source and in both languages.
cat >messages.json <<'END'
[{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hi \"you\" \u00e9"}]
END
mkdir checkpoint
cat >checkpoint/tokenizer_config.json <<'END'
{"bos_token": {"content": "<s>"}, "eos_token": "</s>",
 "chat_template": "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}{{ strftime_now('%d %b %Y') }}{{ extra }}"}
END
cat >chat.tmpl <<'END'
{{ range .Messages }}<{{ .Role }}>{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ .Content }}{{ end }}{{ currentDate }}{{ if .IsThinkSet }}{{ .Think }}{{ end }}
END
spectool render checkpoint --messages messages.json --date 2025-06-15; echo
spectool render checkpoint/tokenizer_config.json --continue --kwargs '{"extra": [1, "x"]}' --date 2024-02-29 <messages.json; echo
spectool render chat.tmpl --messages messages.json --date '2025-03-01 10:00' --think on
printf '%s\n' '{"messages": [{"role": "user", "content": "a"}], "kwargs": {"add_generation_prompt": true}}' \
    '{"vars": {"extra": 1.0}, "template": "{{ extra }}{{ x }}{{ [1.5, none] }}"}' \
    '{"template": "{{ .A }} {{ .B }}", "vars": {"A": [1, "b"]}}' \
    '{"template": "\n{{ raise_exception(\"no\") }}"}' '{"template": 1}' 'no json' |
    spectool render checkpoint --batch --date 2025-06-15
printf '%s\n' '{"prompt": "a(", "suffix": ")", "template": "<pre>{{ .Prompt }}<suf>{{ .Suffix }}<mid>"}' '{"messages": []}' |
    spectool render --batch
for wrong in '--go --jinja checkpoint' '--date today checkpoint' '' '--batch --messages x' 'nowhere' '--messages messages.json messages.json'; do
    spectool render $wrong </dev/null
    echo "exit $?"
done
spectool render checkpoint 'Hi "you"' --date 2025-06-15; echo
for wrong in '--go checkpoint' '--kwargs {} chat.tmpl' '--continue chat.tmpl'; do
    spectool render $wrong --messages messages.json
    echo "exit $?"
done
for think in off hard 'very hard'; do
    spectool render chat.tmpl Hi --date 2025-03-01 "--think=$think"
    echo "exit $?"
done
spectool render checkpoint Hi --think true
echo "exit $?"
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
spectool render packed.bin --messages messages.json
echo "exit $?"
