#!/usr/bin/env bash
# Finds what the set-up needs: Python 3.11 to 3.13 with venv and headers, and a C compiler.
# Prints the path of a Python that has everything on stdout; else says on stderr what is missing and how to
# install it, and exits with 1. PYTHON=... names the only Python to look at.
set -u

# Python's checks run inside the candidate itself: a pyenv shim exists also where it starts nothing.
probe='
import os, sys, sysconfig
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    print("version"); sys.exit()
lacking = []
try:
    import ensurepip, venv
except ImportError:
    lacking.append("venv")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    lacking.append("headers")
print("%d.%d" % sys.version_info[:2], sys.executable, ",".join(lacking) or "complete", sep="\t")
'

candidates() {
    if [ -n "${PYTHON:-}" ]; then
        type -P "$PYTHON"
        return
    fi
    local name
    for name in python3.13 python3.12 python3.11 python3 python; do
        type -aP "$name"
    done
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[123].*/bin/python3 2>/dev/null | sort -rV
}

# Sets python, version, lacking: the first complete candidate, else the first of a fitting version.
choose_python() {
    python="" version="" lacking="" seen_version=""
    local candidate answer
    while read -r candidate; do
        answer=$("$candidate" -I -c "$probe" 2>/dev/null) || continue
        if [ "$answer" = version ]; then
            seen_version=$("$candidate" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
            continue
        fi
        if [ -z "$python" ] || [ "${answer##*$'\t'}" = complete ]; then
            IFS=$'\t' read -r version python lacking <<<"$answer"
        fi
        [ "$lacking" = complete ] && return
    done < <(candidates)
}

# True if the C compiler that setuptools will call translates a file that includes Python.h (or, without
# headers, one that includes stdio.h).
compiler_works() {
    local header=stdio.h include=. configured=cc
    if [ "$lacking" = complete ]; then
        header=Python.h
        include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
        configured=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("CC") or "cc")')
    fi
    # shellcheck disable=SC2086  # CC may hold options
    echo "#include <$header>" | ${CC:-$configured} -I"$include" -x c -fsyntax-only - 2>/dev/null
}

system_name() {
    if [ "$(uname -s)" = Darwin ]; then
        echo macos
    elif command -v apt-get >/dev/null; then
        echo debian
    elif command -v dnf >/dev/null; then
        echo fedora
    else
        echo other
    fi
}

# The command that installs what is missing; $1: version, venv, headers, compiler, in any number.
install_command() {
    local missing=" $* " packages="" sudo="sudo " system
    [ "$(id -u)" = 0 ] && sudo=""
    system=$(system_name)
    # The system's own python3 has packages without a number; any other has its number in their names.
    local name=python3
    local packaged
    packaged=$(/usr/bin/python3 -I -c "$probe" 2>/dev/null | cut -f1)
    [ -n "$version" ] && [ "$packaged" != "$version" ] && name=python$version
    if [[ $missing == *" version "* && -n $packaged ]]; then
        name=python3.13
        [ "$packaged" = version ] && [ "${seen_version#3.}" -lt 11 ] && name=python3.11
    fi
    case $system in
    debian)
        [[ $missing == *" version "* ]] && packages="$name $name-dev $name-venv"
        [[ $missing == *" headers "* ]] && packages+=" $name-dev"
        [[ $missing == *" venv "* ]] && packages+=" $name-venv"
        [[ $missing == *" compiler "* ]] && packages+=" gcc libc6-dev"
        echo "${sudo}apt-get install ${packages# }" ;;
    fedora)
        [[ $missing == *" version "* ]] && packages="$name $name-devel"
        [[ $missing == *" headers "* || $missing == *" venv "* ]] && packages+=" $name-devel"
        [[ $missing == *" compiler "* ]] && packages+=" gcc"
        echo "${sudo}dnf install ${packages# }" ;;
    macos)
        [[ $missing == *" compiler "* ]] && echo "xcode-select --install"
        [[ $missing == *" compiler " ]] || echo "brew install python@3.13" ;;
    *)
        echo "(your system's package manager): Python 3.11 to 3.13, its development headers, a C compiler" ;;
    esac
}

describe() {
    case $1 in
    version)
        if [ -n "$seen_version" ]; then
            echo "Python 3.11, 3.12 or 3.13 (found only $seen_version)"
        else
            echo "Python 3.11, 3.12 or 3.13"
        fi ;;
    venv) echo "the venv and ensurepip modules of Python $version ($python)" ;;
    headers) echo "the headers (Python.h) of Python $version ($python)" ;;
    compiler) echo "a working C compiler (${CC:-cc})" ;;
    esac
}

choose_python
missing=()
if [ -z "$python" ]; then
    missing+=(version)
elif [ "$lacking" != complete ]; then
    IFS=, read -ra missing <<<"$lacking"
fi
compiler_works || missing+=(compiler)

if [ ${#missing[@]} -eq 0 ]; then
    echo "$python"
    exit 0
fi
{
    echo "Flambeau's set-up is missing:"
    for item in "${missing[@]}"; do
        echo "  - $(describe "$item")"
    done
    echo "Install it with:"
    install_command "${missing[@]}" | sed 's/^/    /'
    echo "then run make again. (PYTHON=/path/to/python3 make ... names another Python.)"
} >&2
exit 1
