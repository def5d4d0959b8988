#!/bin/sh
# install.sh METHOD, in a builder stage: /out/tree/repo is the tree as one fresh commit, and below
# /out/new lies what makes it importable; both are copied to / as they are. The project's back-end runs
# as an ordinary user; the result is the same every time.
set -eu
umask 022
date=@946684800
agent() { setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/tmp GIT_CONFIG_NOSYSTEM=1 "$@"; }

mkdir /out /repo
tar -xf /build/source.tar -C /repo --no-same-owner
chown -R 1000:1000 /out /repo
# Archives carry times from 1970, which back-ends that write wheels refuse.
find /repo -exec touch -h -d $date {} +
cd /repo
cat > /build/begin.sh <<'END'
set -eu
export GIT_AUTHOR_NAME=race GIT_AUTHOR_EMAIL=race@localhost.invalid GIT_AUTHOR_DATE='2000-01-01T00:00:00Z'
export GIT_COMMITTER_NAME=race GIT_COMMITTER_EMAIL=race@localhost.invalid GIT_COMMITTER_DATE='2000-01-01T00:00:00Z'
rm -rf .git
git init -q -b main --template=
git -c core.autocrlf=false -c core.safecrlf=false -c advice.addEmbeddedRepo=false add -A -f .
git -c core.logAllRefUpdates=false -c core.hooksPath=/dev/null commit -q --allow-empty -m base
END
cat > /build/end.sh <<'END'
set -eu
# What installing left behind: metadata and build folders go, generated sources stay and are named.
git -c core.quotePath=false ls-files --others --directory |
  grep -E '(^|/)([^/]*\.egg-info|\.eggs|__pycache__|build|dist|\.hatch|\.pdm-build)/$' |
  while IFS= read -r left; do rm -rf "./$left"; done
git -c core.quotePath=false ls-files --others | grep -E '\.py[co]$' | while IFS= read -r left; do rm -f "./$left"; done
mkdir -p .git/info
git -c core.quotePath=false ls-files --others | sed 's#^#/#' | sort > .git/info/exclude
git -c pack.threads=1 repack -adq
rm -rf .git/logs .git/COMMIT_EDITMSG .git/hooks .git/branches .git/description .git/gc.log
git read-tree HEAD
END
agent sh /build/begin.sh
agent env PYTHONPATH="$([ -d /opt/dependencies ] && echo /opt/dependencies/lib/python3*/site-packages)" \
  PYTHONDONTWRITEBYTECODE=1 /opt/build/bin/python /build/editable.py "$1" /repo /out
agent sh /build/end.sh

# The same path as in the task's image, so that scripts name the right interpreter; then only what is new.
sh /build/unpack.sh /opt/venv /out/wheels /out/project.lock
new=/out/new/opt/venv
mkdir -p $new/bin /out/tree
cp -a /opt/venv/lib $new/
find /opt/venv/bin -type f ! -iname 'activate*' -exec cp -p {} $new/bin/ \;
cd /
mv /repo /out/tree/repo
find /out/new /out/tree/repo -exec touch -h -d $date {} +
