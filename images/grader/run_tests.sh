#!/bin/sh
# Grades what was done to the repository and always leaves /tmp/report.json.
rm -rf /tmp/report.json
for python in /usr/local/bin/python3 /usr/bin/python3; do
    if [ -x "$python" ]; then
        "$python" -I -S /soma/grader/launch.py grade
        break
    fi
done
[ -s /tmp/report.json ] || cp /soma/task/failed.json /tmp/report.json
