#!/usr/bin/env bash
# Run test steps one after the other and add up what they report.
#
#   scripts/run-steps.sh STEP:KIND...
#
# STEP is a make target, KIND how it reports (see scripts/tally.py). A failed
# step does not stop the others. Logs and the result lie in target/steps/; the
# last line, also in target/steps/result, is "N passed, N failed".

set -euo pipefail
cd "$(dirname "$0")/.."

logs=target/steps
rm -rf "$logs"
mkdir -p "$logs"
echo "0 passed, 1 failed" >"$logs/result" # stands if this script is killed

passed=0
failed=0
table=""
for spec in "$@"; do
    step=${spec%%:*}
    kind=${spec##*:}
    log=$logs/$step.log
    printf '\n== make %s\n' "$step"
    start=$SECONDS
    status=0
    "${MAKE:-make}" --no-print-directory "$step" </dev/null 2>&1 | tee "$log" || status=$?
    counts=$(python3 scripts/tally.py "$kind" "$status" "$log")
    read -r step_passed step_failed <<<"$counts"
    passed=$((passed + step_passed))
    failed=$((failed + step_failed))
    table+=$(printf '%-28s %6d %6d %7ds' "$step" "$step_passed" "$step_failed" $((SECONDS - start)))$'\n'
done

printf '\n%-28s %6s %6s %8s\n%s\n' step passed failed time "$table"
echo "$passed passed, $failed failed" | tee "$logs/result"
[ "$failed" -eq 0 ]
