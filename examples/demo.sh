#!/bin/sh
# The main job on a small sample, and what came out. Called by `make demo`.
set -eu
unspool=$1
out=demo-out
rm -rf "$out" && mkdir -p "$out"
echo "\$ unspool extract examples/telemetry -o $out/conversations.jsonl"
"$unspool" extract examples/telemetry -o "$out/conversations.jsonl" --no-context-tag-summary
echo
echo "\$ unspool list --agents $out/conversations.jsonl"
"$unspool" list --agents "$out/conversations.jsonl" | cat
echo
echo "\$ unspool show conv-1 --from $out/conversations.jsonl"
"$unspool" show conv-1 --from "$out/conversations.jsonl" | cat
echo
echo "\$ unspool export examples/limiter.jsonl --to html -o $out/limiter.html"
"$unspool" export examples/limiter.jsonl --to html -o "$out/limiter.html" >/dev/null
echo "A page to read and to keep: $out/limiter.html"
