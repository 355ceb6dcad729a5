// Rewrite the expected values of testdata/templates/go.jsonl: go run go_cases.go FOLDER
//
// Each line holds a template; Go's text/template, with missingkey=zero and ollama's functions, executes it
// on FOLDER/variables.json, and the line gets "rendered" or "error". To add a case, add a line
// {"template": "..."} and run this. Made with Go 1.19.
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"text/template"
)

type testCase struct {
	Template string  `json:"template"`
	Rendered *string `json:"rendered,omitempty"`
	Error    string  `json:"error,omitempty"`
}

func main() {
	raw, err := os.ReadFile(filepath.Join(os.Args[1], "variables.json"))
	if err != nil {
		panic(err)
	}
	var data any
	if err := json.Unmarshal(raw, &data); err != nil {
		panic(err)
	}
	funcs := template.FuncMap{
		"json": func(v any) string {
			b, _ := json.Marshal(v)
			return string(b)
		},
		"currentDate":   func(...string) string { return "2025-06-15" },
		"yesterdayDate": func(...string) string { return "2025-06-14" },
	}
	path := filepath.Join(os.Args[1], "go.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for _, line := range bytes.Split(text, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var c testCase
		if err := json.Unmarshal(line, &c); err != nil {
			panic(err)
		}
		c.Rendered, c.Error = nil, ""
		var made bytes.Buffer
		t, err := template.New("").Option("missingkey=zero").Funcs(funcs).Parse(c.Template)
		if err == nil {
			err = t.Execute(&made, data)
		}
		if err != nil {
			c.Error = err.Error()
		} else {
			s := made.String()
			c.Rendered = &s
		}
		encoder.Encode(c)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		panic(err)
	}
}
