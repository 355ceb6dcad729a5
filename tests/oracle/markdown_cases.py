"""Writes testdata/markdown.json: pieces of Markdown and the HTML that markdown-it-py makes of them, for
tests/serve/test_serve_markdown.c. What the page shows otherwise on purpose (formulas, raw HTML, links to
other places than the web, single line breaks) is tested there.
    pip install markdown-it-py linkify-it-py && python3 tests/oracle/markdown_cases.py >testdata/markdown.json
"""
import json
from markdown_it import MarkdownIt

CASES = [
    # paragraphs, breaks, escapes, entities
    "One line", "Two\nlines", "One\n\ntwo\n\n\nthree\n", "a  \nb", "a\\\nb", "   a\n     b\n b", "CR\r\nLF\r\n\r\nnext",
    r"\*a\* \_b\_ \`c\` \# \\ \a \|", "&lt;b&gt; &amp; &quot;q&quot; &nbsp; &unknown; a&b",
    "a \\h \\", "# a\\",
    "\u00fc\u00df \u4f60\u597d \U0001f600 \u200bzero",
    # emphasis
    "*a* _b_ **c** __d__ ***e*** ~~f~~", "**a *b* c** *a **b** c*", "***a** b* ***a* b**", "a*b*c a_b_c a__b__c snake_case_name",
    "2 * 3 * 4, 2*3, *, **, ** a **, * a *", "*a **b", "**a *b** c*", "*foo**bar**baz*", "**bold**text **bold**: more",
    "*(a)* **\"b\"** (*c*)", "**`code`** and *`x`*", "****a**** *****b*****", "~5 and ~6, ~~a ~b~~", "**a\nb** *c\nd*",
    "*(*a*)* **(**b**)** *(*c", "foo(*args, **kwargs) and __init__.py __main__", "*a_b* _a*b_", "**a** **b** *c* *d*", "_(a)_ and _b_, c",
    # code
    "`a` ``b ` c`` ` `` ` `` ` `", "`a *b* <c> [d](e) \\f`", "`unclosed **a**", "`a\nb`", "`` `a` `` and ` b `", "a`b`c``d`",
    "```\nplain\n```", "```python\ndef f():\n    return \"<b>\"\n\n\tx = 1\n```\nafter", "~~~js title\n`a`\n```\n~~~\n", "````\n```\n````",
    "```c\nnot closed\n", "  ```\n  a\n   b\n c\n  ```", "```\n```", "``` a`b ```", "    indented\n      more\n\n    code\n\ntext",
    "para\n    not code", "```sh\n$ make\n```\n```sh\n$ make test\n```",
    # headings, rules
    "# One\n## Two ##\n### *Three* `x`\n#### 4\n##### 5\n###### 6\n####### 7", "#not\n#\n# ", "One\n===\nTwo\n---\nThree\n-\n", "# a \\# #",
    "---\n***\n_ _ _\n- - -\n--\n", "text\n\n---\n\ntext", "text\n***\ntext", "# *a\nb*",
    # quotes
    "> a\n> b\n>\n> c", "> a\nlazy\n\nb", "> a\n> > b\n> c", "> - a\n>   - b\n>\n> ```\n> code\n> ```", ">a\n\n> b", "> # h\n> text\n- item",
    # lists
    "- a\n- b\n- c", "* a\n* b\n+ c\n- d", "1. a\n2. b\n3. c", "3) a\n4) b\n1. c", "- a\n\n- b\n\n- c", "- a\n  - b\n    - c\n  - d\n- e",
    "1. a\n   - b\n   - c\n2. d\n   1. e\n   2. f", "- a\n\n  second\n- b", "- a\nlazy\n- b\n  more", "1. a\n\n   ```py\n   x = 1\n\n   y\n   ```\n2. b",
    "- a\n  > q\n- b", "text\n- a\n- b\n\ntext", "text\n2. no list", "text\n1. list", "-\n- a\n-\n", "- a\n-b", "10. a\n11. b\n    - c\n",
    "- **a**: b\n- `c`: d\n\n1. x\n\n2. y\n\n   z\n", "* a\n\n    code?\n\n      more", "-   wide\n\n    same\n-     code", "- # h\n- text\n  ***\n",
    "- a\n\n\n- b\n\n\ntext", "1. a\n1. b\n0. c", "- a\n - b\n  - c\n   - d", "-\ttab\n\n\tsame\n- b", "* * a\n* - b", "2019. a\n\n1234567890. b",
    "-   \n  a\n-\n  b", "- a\n\n  - b\n\n    c\n- d",
    # tables
    "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |", "a | b\n--|:-:\n1 | 2\n", "| l | r | c |\n|:--|--:|:-:|\n| **x** | `y` | [z](https://z.example) |",
    "| a |\n|---|\n| b |\n\ntext", "| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |\n| | x |\n", "| a \\| b | `c \\| d` |\n|---|---|\n| e | f |",
    "| a | b |\n|---|\nno", "text\n| a | b |\n|---|---|\n| 1 | 2 |\n> q", "| a | b |\n|---|---|\n- x", "- | a | b |\n  |---|---|\n  | 1 | 2 |", "a | b\n\n| c |",
    # links
    "[a](https://a.example) [b *c*](http://b.example/x_y_z \"title\") [d](mailto:d@e.example)", "[a](<https://a.example/b c>) [e](https://x.example/(y))",
    "<https://a.example/x_y> <mailto:a@b.example> <a>", "[a] [b][c] [d]: x", "[a](https://a.example", "[a [b] c](https://a.example) [`]`](https://b.example)",
    "see https://a.example/b_c_d, https://b.example/(x). (https://c.example/y) **https://d.example**", "[https://a.example](https://a.example)",
    "[![alt x](https://i.example/a.png)](https://l.example)", "xhttps://a.example", "[a](https://a.example\n'title')",
    # raw HTML is text
    "<img src=x onerror=alert(1)> <b>a</b>", "<script>alert(1)</script>", "<div>\n\n*a*\n\n</div>", "<!-- a -->", "a < b > c <3",
    # all at once
    """# A greeting in C

This program **greets** a *person* by name; it reads `argv[1]`, and ~~fails~~ falls back to `world`. See
[the standard](https://www.open-std.org/jtc1/sc22/wg14/ "WG 14") or https://en.cppreference.com/w/c.

## The program

```c
#include <stdio.h>

int main(int argc, char **argv)
{
    printf("Hello, %s! This line is so long that it has to be scrolled on the screen of a phone.\\n", argc > 1 ? argv[1] : "world");
    return 0;
}
```

Build and run it:

1. **Compile** it with warnings:
   ```sh
   cc -std=c11 -Wall -Wextra -o greet greet.c
   ```
2. **Run** it:
   - without a name,
   - with one:
     - `./greet Ada`
     - `./greet "Grace Hopper"`
3. Check the status, `echo $?`.

> **Note:** the name is printed as it is.
>
> > It is no *format*, so `%s` in it does no harm.

### What it costs

| Step | Command | Seconds | Remark |
|:-----|:-------:|--------:|--------|
| compile | `cc` | 0.04 | **once** for each change of the source |
| run | `./greet` | 0.001 | [measured](https://example.org/measured) |
| all | | 0.041 | |

---

#### Next

- read several names

- sort them:

      greet Ada Grace

Good luck!
""",
]

md = MarkdownIt("commonmark", {"html": False, "linkify": True}).enable(["table", "strikethrough", "linkify"])
md.disable(["reference", "html_block", "html_inline"])
md.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
md.linkify.add("ftp:", None).add("//", None).add("mailto:", None)
print("[")
print(",\n".join(json.dumps({"markdown": text, "html": md.render(text)}) for text in CASES))
print("]")
