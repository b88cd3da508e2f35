// What reviewed callees do.
#pragma once

#include "pystate/callees.h"

namespace fulgurite::pystate::handlers {

// --- By what is read of the arguments
void looks(Recorder&, const Call&);     // at types, lengths and identities
void reads(Recorder&, const Call&);     // all of them
void makes(Recorder&, const Call&);     // all of them, for a new object
void iterates(Recorder&, const Call&);  // their elements, for a new object
void nothing(Recorder&, const Call&);

// --- Builtin functions
void identifies(Recorder&, const Call&);  // id
void hashes(Recorder&, const Call&);
void gets_attribute(Recorder&, const Call&);
void sets_attribute(Recorder&, const Call&);
void sets_attribute_plainly(Recorder&, const Call&);
void gets_slot(Recorder&, const Call&);  // descriptor.__get__(object) of a C type
void gets_length(Recorder&, const Call&);
void checks_type(Recorder&, const Call&);        // isinstance, issubclass
void checks_registered(Recorder&, const Call&);  // the same for abstract classes
void advances(Recorder&, const Call&);
void gets_variables(Recorder&, const Call&);
void shows(Recorder&, const Call&);     // a message
void executes(Recorder&, const Call&);  // exec, eval
void imports(Recorder&, const Call&);
void gets_type(Recorder&, const Call&);     // type(object)
void calls_type(Recorder&, const Call&);    // type.__call__
void makes_object(Recorder&, const Call&);  // cls.__new__(cls)
void reduces(Recorder&, const Call&);       // object.__reduce_ex__

// --- Methods of containers
void appends(Recorder&, const Call&);  // the elements of an iterable
void appends_one(Recorder&, const Call&);
void changes(Recorder&, const Call&);  // all of self, reading the arguments
void clears(Recorder&, const Call&);
void gets_item(Recorder&, const Call&);
void sets_item(Recorder&, const Call&);
void deletes_item(Recorder&, const Call&);
void gets_key(Recorder&, const Call&);
void sets_key(Recorder&, const Call&);
void removes_key(Recorder&, const Call&);
void gets_or_sets_key(Recorder&, const Call&);
void updates(Recorder&, const Call&);
void changes_member(Recorder&, const Call&);
void checks_member(Recorder&, const Call&);

// --- Others
void gets_context_variable(Recorder&, const Call&);
void sets_context_variable(Recorder&, const Call&);
void dereferences(Recorder&, const Call&);  // a weak reference
void calls_cached(Recorder&, const Call&);  // a functools.lru_cache wrapper
void calls_partial(Recorder&, const Call&);
void takes_lock(Recorder&, const Call&);
void gives_back_lock(Recorder&, const Call&);
void changes_own(Recorder&, const Call&);    // self, which has to be made by the run
void gets_by_name(Recorder&, const Call&);   // operator.attrgetter
void gets_by_key(Recorder&, const Call&);    // operator.itemgetter
void mutates_first(Recorder&, const Call&);  // heapq.heappush and the like

// --- Libraries
void calls_target(Recorder&, const Call&);  // what is compiled, which runs as it is
void dispatches(Recorder&, const Call&);    // torch: the dispatcher sees the rest
void calls_script(Recorder&, const Call&);
void asks(Recorder&, const Call&);  // for a setting that could be changed
void reads_tensor_data(Recorder&, const Call&);
void changes_tensor_state(Recorder&, const Call&);
void computes_on_arrays(Recorder&, const Call&);  // NumPy
void array_method(Recorder&, const Call&);

}  // namespace fulgurite::pystate::handlers
