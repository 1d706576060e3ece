# Runs the distribution's own Python tests of verbs, and says how each ended: what its own runner says in prose, in lines.
#
# Usage: distribution.py FOLDER     where the tests lie as the distribution's package has them, unpacked

import importlib
import importlib.machinery
import os
import sys
import unittest
import warnings


class Result(unittest.TestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        say("skipped", test, reason)


# At once: a test that forks would have its children say it again.
def say(how, test, why=""):
    print(f"{how} {test.id()}: {why}", flush=True)


# The tests look for a card's network interface in /sys, to find the address that they connect by. Every address of the host is
# the device's, so they are told one.
def know_the_address(tests):
    def know(self, device, port, index):
        self.args.append([device, port, index, "127.0.0.1", None])

    tests.base.RDMATestCase._get_ip_mac = know


def main():
    folder = sys.argv.pop(1)
    sys.path.insert(0, folder)
    from args_parser import parser

    parser.parse_args()
    path = os.path.join(folder, "__init__.py")
    tests = importlib.machinery.SourceFileLoader("tests", path).load_module()
    importlib.import_module("tests.base")
    know_the_address(tests)
    result = Result()
    unittest.defaultTestLoader.loadTestsFromModule(tests).run(result)
    wrong = result.failures + result.errors
    for test, trace in wrong:
        say("FAIL", test, trace.strip().splitlines()[-1])
        print(trace)
    print(f"{result.passed} passed, {len(wrong)} failed")
    sys.exit(1 if wrong else 0)


warnings.simplefilter("ignore", DeprecationWarning)
main()
