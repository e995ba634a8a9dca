// Ends a call of torch's with torch's own exception, so that a program that catches
// torch.OutOfMemoryError goes on. Cold.
#pragma once

namespace memo::gpu {

// Throws c10::OutOfMemoryError where `memory`, else c10::Error, both with `text`. Returns where
// torch is not in the process, or has them in another form. The exception is thrown by the C++
// library that torch uses, and may not meet a destructor of this one, which has a library of its
// own: no object with one may be alive in the caller.
void throw_as_torch(const char* text, bool memory);

}  // namespace memo::gpu
