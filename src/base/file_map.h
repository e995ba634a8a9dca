// Files that are mapped and written while others may change them. Cold but for copy_mapped(); no
// allocation, and errno stays as it was.
#pragma once

#include <cstdint>

namespace memo::os {

// The file's first bytes, shared with all that have it open, and in no child that is forked later;
// nullptr where the system refuses. The descriptor may be closed. For copy_mapped() alone.
void* map_file(int file, std::uint64_t bytes);

// Copies between memory and such a mapping: true if all was. A plain copy ends the process (SIGBUS)
// where others have cut the file short, or its file system is full; this answers false, and so it
// does where a sandbox refuses it. No overlap.
bool copy_mapped(void* to, const void* from, std::uint64_t bytes);

}  // namespace memo::os
