"""Commands in forks of one interpreter, which has loaded what most of them need: that takes seconds.

For `python -P`, with the audit hook. Each line of its input is a command in JSON: the words, the environment,
and the file for what the hook sees. Beside that file is left what was printed, and where the command would
have looked for modules when it was done. Each command is answered by a line with its exit code.
"""

import json
import os
import sys
from pathlib import Path

import sitecustomize

from ttray import TTPOISConfig, collect  # noqa: F401  # whose modules load all that collects
from ttray.cli.app import app
from ttray.cli.terminal import run


def main():
    for line in sys.stdin:
        words, environ, log = json.loads(line)
        process = os.fork()
        if process == 0:
            os.environ.update(environ, AUDIT_LOG=log)  # which those that it starts have, too
            os.dup2(sitecustomize.opened_log(log), sitecustomize.LOG)
            said = os.open(f"{log}.said", os.O_WRONLY | os.O_CREAT)
            os.dup2(said, 1)
            os.dup2(said, 2)
            try:
                run(app, words)  # which ends with an exit, so that all is done that is to be done at the end
            finally:
                Path(f"{log}.paths").write_text(json.dumps(sys.path))
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


main()
