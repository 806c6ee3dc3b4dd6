#!/bin/sh
# The main job, step by step, on a folder of skills: find, check, tell, read, run.
set -eu
skills=${1:?usage: demo.sh FOLDER}
: "${SKILLYARD:=skillyard}"
bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi

step() {
    printf '\n%s$ skillyard' "$bold"
    for word; do
        case $word in *[!A-Za-z0-9_./=-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '%s\n' "$plain"
    "$SKILLYARD" "$@"
}

step list --root "$skills"
step check "$skills"
step prompt --root "$skills" --budget 600
step read text-statistics --root "$skills"
step run text-statistics --root "$skills" --input '{"text": "Skills are folders. A folder has a SKILL.md."}'
printf '\nNext: %s --help, or point --root at your own skills.\n' "$SKILLYARD"
