#!/bin/sh
# Stands in for `claude` where a test is about what leaf asks of it. Words, exit codes and what the commands leave in the
# settings were recorded from Claude Code 2.1.332; the real client is driven in tests/real.
books=$HOME/.claude/plugins
settings=$HOME/.claude/settings.json
echo "$*" >> "$HOME/calls"
refuse() { echo "✘ $1" >&2; exit 1; }
[ -e "$HOME/refuse" ] && case "$*" in *"$(cat "$HOME/refuse")"*) refuse "Failed to do that: the disk is on fire" ;; esac
version() { sed -n 's/.*"version": "\([^"]*\)".*/\1/p' "$(cat "$books/marketplace")/.claude-plugin/plugin.json"; }
case "$*" in
--version) echo "2.1.332 (Claude Code)" ;;
"plugin marketplace list --json")
  [ -e "$books/marketplace" ] || { echo '[]'; exit 0; }
  printf '[{"name":"leaf","source":"directory","path":"%s","installLocation":"%s"}]\n' \
    "$(cat "$books/marketplace")" "$(cat "$books/marketplace")" ;;
"plugin list --json")
  printf '[{"id":"cc-plugin-privacy@builtin","version":"unknown","scope":"user","enabled":true}'
  [ -e "$books/others" ] && cat "$books/others"
  [ -e "$books/version" ] && printf ',{"id":"leaf@leaf","version":"%s","scope":"user","enabled":%s,"installPath":"%s","readFromFolder":"%s"}' \
    "$(cat "$books/version")" "$(cat "$books/enabled")" "$books/cache/leaf" "$(cat "$books/marketplace")"
  echo ']' ;;
"plugin marketplace add "*)
  mkdir -p "$books"; printf %s "$4" > "$books/marketplace"
  echo "✔ Successfully added marketplace: leaf (declared in user settings)" ;;
"plugin install leaf@leaf")
  [ -e "$books/marketplace" ] || refuse 'Failed to install plugin "leaf@leaf": Plugin "leaf" not found in marketplace "leaf"'
  version > "$books/version"; echo true > "$books/enabled"
  [ -e "$settings" ] || printf '{\n  "enabledPlugins": {\n    "leaf@leaf": true\n  }\n}\n' > "$settings"
  echo "✔ Successfully installed plugin: leaf@leaf (scope: user)" ;;
"plugin update leaf@leaf") version > "$books/version" ;;
"plugin uninstall leaf@leaf")
  [ -e "$books/version" ] || refuse 'Failed to uninstall plugin "leaf@leaf": Plugin "leaf@leaf" not found in installed plugins'
  rm "$books/version" ;;
"plugin marketplace remove leaf")
  [ -e "$books/marketplace" ] || refuse "Failed to remove marketplace: Marketplace 'leaf' not found"
  rm "$books/marketplace" ;;
*) refuse "unknown command: $*" ;;
esac
