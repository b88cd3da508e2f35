// Losses over classes: their elements, and the calls that they are made of.
#pragma once

#include "ops/element_rule.h"

namespace fulgurite::catalogue_families::rules {

// Minus the score of each target's class, by its weight; 0 for targets that are ignored. A class
// out of bounds fails. Of the sum or the mean of them there are parts.
Scalar score_of_class(const ElementCall& call, const Place& place);
// Of each class of a target, whether it is that of the target, times the gradient.
Scalar gradient_of_class(const ElementCall& call, const Place& place);

// The sum or the mean of the losses of nll_loss_forward and nll_loss2d_forward, and the weights'
// sum.
std::vector<Call> parts_of_nll_loss(Trace& trace, const Call& call);
// Of cross_entropy_loss with smoothed labels: torch's own parts look at data.
std::vector<Call> parts_of_smooth_cross_entropy(Trace& trace, const Call& call);

}  // namespace fulgurite::catalogue_families::rules
