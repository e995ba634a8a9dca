// C++'s operators new and delete by the names that the dynamic linker knows (Itanium C++ ABI,
// 5.1.5), for hooks.def's rows of kind Operator. Those that may throw pass on what the next one
// throws.
#pragma once

#include <cstddef>
#include <new>

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" {
void* _Znwm(std::size_t size);
void* _Znam(std::size_t size);
void* _ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t& tag);
void* _ZnamRKSt9nothrow_t(std::size_t size, const std::nothrow_t& tag);
void* _ZnwmSt11align_val_t(std::size_t size, std::align_val_t alignment);
void* _ZnamSt11align_val_t(std::size_t size, std::align_val_t alignment);
void* _ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t size, std::align_val_t alignment,
                                         const std::nothrow_t& tag);
void* _ZnamSt11align_val_tRKSt9nothrow_t(std::size_t size, std::align_val_t alignment,
                                         const std::nothrow_t& tag);
void _ZdlPv(void* pointer);
void _ZdaPv(void* pointer);
void _ZdlPvm(void* pointer, std::size_t size);
void _ZdaPvm(void* pointer, std::size_t size);
void _ZdlPvRKSt9nothrow_t(void* pointer, const std::nothrow_t& tag);
void _ZdaPvRKSt9nothrow_t(void* pointer, const std::nothrow_t& tag);
void _ZdlPvSt11align_val_t(void* pointer, std::align_val_t alignment);
void _ZdaPvSt11align_val_t(void* pointer, std::align_val_t alignment);
void _ZdlPvmSt11align_val_t(void* pointer, std::size_t size, std::align_val_t alignment);
void _ZdaPvmSt11align_val_t(void* pointer, std::size_t size, std::align_val_t alignment);
void _ZdlPvSt11align_val_tRKSt9nothrow_t(void* pointer, std::align_val_t alignment,
                                         const std::nothrow_t& tag);
void _ZdaPvSt11align_val_tRKSt9nothrow_t(void* pointer, std::align_val_t alignment,
                                         const std::nothrow_t& tag);
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
