#!/bin/sh
# The main job, step by step, on a folder of skills: find, check, tell, read, run.
set -eu
skills=${1:?usage: demo.sh FOLDER}
: "${SKILLYARD:=skillyard}"

step() {
    printf '\n\033[1m$ skillyard'
    for word; do
        case $word in *[!A-Za-z0-9_./=-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\033[0m\n'
    "$SKILLYARD" "$@"
}

step list --root "$skills"
step check "$skills"
step prompt --root "$skills" --budget 600
step read text-statistics --root "$skills"
step run text-statistics --root "$skills" --input '{"text": "Skills are folders. A folder has a SKILL.md."}'
printf '\nNext: %s --help, or point --root at your own skills.\n' "$SKILLYARD"
