// What is done where a thread ends. Hot.
#pragma once

namespace memo {

// Once, at start: `end` is called where a thread ends that has told, by that thread.
void prepare_thread_end(void (*end)(void*));
// The calling thread keeps something that must not outlive it.
void tell_at_thread_end();

}  // namespace memo
