"""Languages: which code is worth colouring, and safe to colour."""

LIMIT = 20_000
"""Longer code is shown plain: thousands of coloured words make a page slow."""
LONGEST_LINE = 1000
"""So is code with a longer line: some lexers take a time that grows with its square."""

KNOWN = frozenset(
    """
    bash sh shell zsh batch bat c clojure clj console shell-session cpp c++ csharp c# cs css dart
    diff udiff docker dockerfile elixir ex exs go golang graphql haskell hs hcl terraform tf html ini
    cfg java javascript js json jsx julia jl kotlin lua make makefile markdown md nginx nix
    objective-c objc ocaml php powershell pwsh ps1 protobuf proto python py python3 pycon r ruby rb
    rust rs scala scss sql swift toml tsx typescript ts vue xml yaml yml zig
    """.split()  # noqa: SIM905 - ninety words are easier to read without quotes
)
"""Languages whose lexers were tried with what lexers choke on. Perl's took 15 s on 20 kB."""


def colourable(code: str, language: str) -> bool:
    if language.lower() not in KNOWN or len(code) > LIMIT:
        return False
    return max(map(len, code.split("\n"))) <= LONGEST_LINE
