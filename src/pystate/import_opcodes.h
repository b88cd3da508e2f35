// What the instructions of import statements read. For CPython 3.11.
#pragma once

namespace fulgurite::pystate {

class Recorder;
struct Instruction;

void import_name(Recorder& r, const Instruction& at);
void import_from(Recorder& r, const Instruction& at);
void import_all(Recorder& r, const Instruction& at);

}  // namespace fulgurite::pystate
