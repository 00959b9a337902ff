#!/usr/bin/env bash
# The steps of action.yml, by name: install, run, summary, branch, pull-request, verdict. Each gets what it needs by the
# environment, in the words of GitHub's runners (RUNNER_TEMP, GITHUB_OUTPUT, GITHUB_STEP_SUMMARY, GITHUB_REF_NAME).
set -euo pipefail

export INTERLOCK_HOME="$RUNNER_TEMP/interlock-home"
report="$RUNNER_TEMP/interlock-report.md"
interlock="$RUNNER_TEMP/interlock/bin/interlock"

case "$1" in
  install)
    python3 -m venv "$RUNNER_TEMP/interlock"
    "$RUNNER_TEMP/interlock/bin/pip" install --quiet --disable-pip-version-check "${INSTALL:-$GITHUB_ACTION_PATH}"
    "$interlock" version
    ;;
  run)
    code=0
    "$interlock" run "$PLAN" --unattended ${UNTIL:+--until "$UNTIL"} || code=$?
    echo "code=$code" >> "$GITHUB_OUTPUT"
    ;;
  summary)
    # A run that failed before it had a team has nothing to report; why it failed is in its own log.
    "$interlock" report --full --format md > "$report" || echo "There is no report; the log of the run says why." > "$report"
    head -c 1000000 "$report" >> "$GITHUB_STEP_SUMMARY" # GitHub takes a megabyte
    ;;
  branch)
    git config user.name > /dev/null || git config user.name "Interlock"
    git config user.email > /dev/null || git config user.email "interlock@users.noreply.github.com"
    before=$(git rev-parse HEAD)
    git switch --quiet --create "$BRANCH"
    "$interlock" merge --all || echo "Nothing was merged; the report says what there is."
    if [ "$(git rev-parse HEAD)" = "$before" ]; then
      echo "Nothing was finished, so there is no branch."
      echo "branch=" >> "$GITHUB_OUTPUT"
    else
      # A branch of that name is never overwritten.
      git push --quiet origin "HEAD:refs/heads/$BRANCH"
      echo "branch=$BRANCH" >> "$GITHUB_OUTPUT"
    fi
    ;;
  pull-request)
    head -c 60000 "$report" > "$report.short" # GitHub takes 65,536 characters
    gh pr create --base "$GITHUB_REF_NAME" --head "$BRANCH" --title "Interlock: $PLAN" --body-file "$report.short"
    ;;
  verdict)
    [ "${CODE:-1}" = 0 ] || echo "Not every task is done: the summary says what is left." >&2
    exit "${CODE:-1}"
    ;;
  *)
    echo "night.sh has no step $1" >&2
    exit 2
    ;;
esac
