// What is done where a thread ends. Hot.
//
// It takes one of the C library's 1,024 keys of threads, until the program wants that one as well (thread_keys.cc).
#pragma once

namespace memo {

// Once, at start, with the underlying allocator known: `end` is called where a thread ends that has told, by that thread.
void prepare_thread_end(void (*end)(void*));
// The calling thread keeps something that must not outlive it.
void tell_at_thread_end();
// The program wants all keys: ends are not told any more. False where there was none to give.
bool give_up_thread_end();

}  // namespace memo
