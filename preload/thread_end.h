// What is done where a thread ends. Hot.
//
// It takes one of the C library's 1,024 keys of threads, unless the program wants that one as well
// (thread_keys.cc): then ends are not noticed until a thread begins while a key is free.
#pragma once

namespace memo {

// Once, at start, with the underlying allocator known: `end` is called at the end of each thread
// that has called tell_at_thread_end(), by that thread.
void prepare_thread_end(void (*end)(void*));
// The calling thread keeps something that must not outlive it.
void tell_at_thread_end();
// The program wants all keys. False where there was none to give.
bool give_up_thread_end();

}  // namespace memo
