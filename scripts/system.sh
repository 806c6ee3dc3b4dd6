#!/bin/sh
# Installs bubblewrap, the sandbox program, when it is missing. Without it Skillyard falls back to Landlock.
set -eu
if command -v bwrap >/dev/null 2>&1; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null
else
    echo "note: bubblewrap is not installed; tests of that sandbox will fail" >&2
    echo "hint: sudo apt-get install bubblewrap" >&2
fi
