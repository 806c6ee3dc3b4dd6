#!/bin/sh
# Installs the programs the tests need when they are missing: bubblewrap and podman, the sandboxes; PostgreSQL, one of the two databases;
# Chromium with Chinese letters, the browser that skills are granted, and its headless shell, in which the page is tried; nginx, before
# several servers; docker-registry and skopeo, which keep and copy skills as OCI artifacts; faketime, for clocks that jump; qpdf,
# poppler's tools and LibreOffice's sheets, which skills are granted; ripgrep, without which OpenCode loads no skill.
# Without bubblewrap Skillyard falls back to Landlock; without PostgreSQL it uses SQLite.
set -eu
missing=""
command -v bwrap >/dev/null 2>&1 || missing="bubblewrap"
command -v podman >/dev/null 2>&1 || missing="$missing podman runc"
command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium fonts-noto-cjk"
command -v chromium-headless-shell >/dev/null 2>&1 || missing="$missing chromium-headless-shell"
command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || missing="$missing nginx"
command -v docker-registry >/dev/null 2>&1 || missing="$missing docker-registry"
command -v skopeo >/dev/null 2>&1 || missing="$missing skopeo"
ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing="$missing faketime"
command -v qpdf >/dev/null 2>&1 || missing="$missing qpdf"
command -v pdftotext >/dev/null 2>&1 || missing="$missing poppler-utils"
command -v rg >/dev/null 2>&1 || missing="$missing ripgrep"
[ -e /usr/lib/libreoffice/program/libsclo.so ] || missing="$missing libreoffice-calc-nogui"
if [ -z "$missing" ]; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq
    # The tests start a server of their own: the package need not start one.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        mkdir -p /etc/postgresql-common
        echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    fi
    # Neither need nginx start: the level of a machine that is being set up starts nothing.
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "note: not installed:$missing; the tests that need them will fail" >&2
    echo "hint: sudo apt-get install $missing" >&2
fi
