# The script also works on a file, for people: `python3 scripts/summarize.py table.csv`.
set -eu
printf 'day,visits\n2026-01-01,3\n2026-01-02,\n' > "$TMPDIR/table.csv"
answer=$(env -u SKILL_RESULT_FD python3 scripts/summarize.py "$TMPDIR/table.csv")
case $answer in
  '{"rows": 2,'*'"kind": "date"'*'"blank": 1'*) ;;
  *) echo "unexpected answer: $answer" >&2; exit 1 ;;
esac
