// When operators tagged as random draw. The tag alone means: always.
#include "ops/catalogue/families.h"

namespace fulgurite::catalogue_families {
namespace {

constexpr std::array<const char*, 2> train{"train"}, training{"training"},
    train_and_dropout{"train", "dropout"};

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "dropout", .doc = "zeroes elements at random, scales the others", .draws_when = train},
    {.op = "dropout_", .doc = "dropout in place", .draws_when = train},
    {.op = "native_dropout", .doc = "dropout, and its mask", .draws_when = train},
    {.op = "feature_dropout", .doc = "zeroes channels at random", .draws_when = train},
    {.op = "feature_dropout_", .doc = "feature_dropout in place", .draws_when = train},
    {.op = "alpha_dropout", .doc = "dropout that keeps mean and variance", .draws_when = train},
    {.op = "alpha_dropout_", .doc = "alpha_dropout in place", .draws_when = train},
    {.op = "feature_alpha_dropout", .doc = "alpha_dropout of channels", .draws_when = train},
    {.op = "feature_alpha_dropout_", .doc = "the same in place", .draws_when = train},
    {.op = "lstm.input", .doc = "LSTM layers", .draws_when = train_and_dropout},
    {.op = "lstm.data", .doc = "LSTM layers, packed", .draws_when = train_and_dropout},
    {.op = "gru.input", .doc = "GRU layers", .draws_when = train_and_dropout},
    {.op = "gru.data", .doc = "GRU layers, packed", .draws_when = train_and_dropout},
    {.op = "rnn_tanh.input", .doc = "tanh layers", .draws_when = train_and_dropout},
    {.op = "rnn_tanh.data", .doc = "tanh layers, packed", .draws_when = train_and_dropout},
    {.op = "rnn_relu.input", .doc = "relu layers", .draws_when = train_and_dropout},
    {.op = "rnn_relu.data", .doc = "relu layers, packed", .draws_when = train_and_dropout},
    {.op = "_cudnn_rnn", .doc = "recurrent layers by cuDNN", .draws_when = train_and_dropout},

    // Neither tagged nor given a generator.
    {.op = "quantized::dropout",
     .doc = "dropout of a quantised tensor",
     .draws_when = training,
     .random = true},
    {.op = "quantized_lstm.input",
     .doc = "quantised LSTM layers",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_lstm.input_legacy",
     .doc = "quantised LSTM layers, weights as tensors",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_lstm.data_legacy",
     .doc = "quantised LSTM layers, packed, weights as tensors",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_lstm.data",
     .doc = "quantised LSTM layers, packed",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_gru.input",
     .doc = "quantised GRU layers",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_gru.input_legacy",
     .doc = "quantised GRU layers, weights as tensors",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_gru.data_legacy",
     .doc = "quantised GRU layers, packed, weights as tensors",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_gru.data",
     .doc = "quantised GRU layers, packed",
     .draws_when = train_and_dropout,
     .random = true},
}));

}  // namespace

constinit const std::span<const OpRecord> random = records;

}  // namespace fulgurite::catalogue_families
