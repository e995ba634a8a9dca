"""Rows of run.py on libraries with an allocator of their own: how they are found, and opened."""

from kinds import SCRIPT

HIDER_ROWS = (
    ("an array of numpy is not given back", "preload/numpy.cc",
     "{ shim::free(pointer); }", "{ (void)pointer; }",
     SCRIPT, "test_numpy.py test_hidden_arrays_come_back"),
    ("numpy's arrays of nought are as malloc left them", "preload/numpy.cc",
     "return shim::calloc(count, size);", "return shim::malloc(count * size);",
     SCRIPT, "test_numpy.py test_hidden_arrays_come_back"),
    ("numpy's handler is set where arrays are seen already", "python/memomalloc/numpy.py",
     "if handler is None or not (always or hidden()):", "if handler is None:",
     SCRIPT, "test_numpy.py test_arrays_that_are_seen_are_left_alone"),
    ("hidden arrays are taken to be seen", "python/memomalloc/numpy.py",
     'before["large_allocations"] < _PROBES', 'before["large_allocations"] < 0',
     SCRIPT, "test_numpy.py test_hidden_arrays_come_back"),
    ("what changes kernels is set, too", "src/cli/run/hiders.cc",
     "if (hider.setter == Hider::kOpen) {", "if (*hider.setting != '\\0') {",
     SCRIPT, "test_run.py test_what_hides_allocations_is_opened_if_asked"),
    ("any object of the name counts", "src/cli/run/hiders.cc",
     "elf && elf->allocators.contains(hider.defines) && !elf->gives_tensors()", "elf && !elf->gives_tensors()",
     SCRIPT, "test_doctor.py test_torch_with_an_allocator_inside"),
    ("one of torch's functions is enough", "src/cli/run/elf_file.h",
     "return tensors.size() == std::size(kTensorNames);", "return !tensors.empty();",
     SCRIPT, "test_doctor.py test_torch_with_an_allocator_inside"),
)
