// The families of the catalogue, one file each.
#pragma once

#include "ops/catalogue.h"

namespace fulgurite::catalogue_families {

extern const std::span<const OpRecord> activations, arithmetic, attention, convolution_family,
    effects, embeddings, factories, functions, indexing, layers, layouts, linear_algebra, losses,
    moves, norms, optimizers, pointwise, pooling, products, random, reductions, views;

}  // namespace fulgurite::catalogue_families
