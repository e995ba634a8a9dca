"""Rows of run.py on the first ten minutes: wheels, the Python module, the comparison's page, the site."""

from kinds import SCRIPT, UNIT

FIRST_ROWS = (
    ("a wheel may need any library", "scripts/wheel_checks.py",
     "for library in elf.needed() if not GLIBC_PARTS.match(library)]", "for library in elf.needed() if False]",
     SCRIPT, "test_wheels.py test_binaries"),
    ("a wheel's binaries may be another processor's", "scripts/wheel_checks.py",
     "if elf.machine != MACHINES[processor]:", "if False:",
     SCRIPT, "test_wheels.py test_binaries"),
    ("auditwheel is not listened to", "scripts/wheel_checks.py",
     "return [] if found <= own else", "return [] if found or own else",
     SCRIPT, "test_wheels.py test_auditwheel_must_agree"),
    ("blocks of a wheel's plan may overlap", "scripts/wheel_planner.py",
     "if start < other[3] and other[2] < end:", "if False:",
     SCRIPT, "test_wheels.py test_plans_are_judged"),
    ("a script that starts itself anew loses its words", "python/memomalloc/start.py",
     "os.execv(sys.executable, own_command())", "os.execv(sys.executable, own_command()[:3])",
     SCRIPT, "test_python_start.py test_a_program_starts_itself_anew_once"),
    ("a preload that was there is lost", "python/memomalloc/start.py",
     "entries = [library, *(", "entries = [library, *(() and ",
     SCRIPT, "test_python_start.py test_the_list_keeps"),
    ("a page says a win where the runs overlap", "src/cli/comparison.cc",
     "(mine.least <= other.most && other.least <= mine.most)", "false",
     UNIT, "comparison page: says what was won, only where the runs do not overlap"),
    ("a page's text is taken for tags", "src/cli/report_assets.cc",
     'safe += "&lt;";', 'safe += "<";',
     UNIT, "comparison page: says what was won, only where the runs do not overlap"),
    ("a link to a heading that is not there passes", "scripts/site/build.py",
     "parts.fragment not in parsed[target].names", "parts.fragment not in (parts.fragment,)",
     SCRIPT, "test_site.py test_dead_links"),
)
