// Which line of a program an error or a message names.
#pragma once

#include <string>

#include "pystate/log.h"

namespace fulgurite::pystate {

// "\n  at file:line", as an error shows it; "" where that is not known.
std::string at_line(const Where& where);

// `innermost`, or the user's own code that called it; where there is none, that of a package. To be
// called while the program is there.
Where line_of_the_user(const Where& innermost);

// "\n  called at file:line" where what is at `innermost` is not the user's own code, else "".
std::string caller_line(const Where& innermost);

}  // namespace fulgurite::pystate
