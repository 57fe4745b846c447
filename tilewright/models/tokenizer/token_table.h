// Token ids by text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw::models {

/// A hash table from the text of a token to its id. Keeps a view of the texts.
class TokenTable {
 public:
  /// `types` is empty or has one entry per token. Tokens of type kUnused whose text another token
  /// has are left out. Throws TokenizerDataError when two other tokens have the same text.
  TokenTable(std::span<const std::string> tokens, std::span<const int32_t> types);

  /// The id of the token with this text, or -1.
  int32_t find(std::string_view text) const;

 private:
  struct Slot {
    uint32_t hash;
    int32_t id;  // -1: empty
  };
  void insert(int32_t id, std::span<const int32_t> types);

  std::span<const std::string> tokens_;
  std::vector<Slot> slots_;  // a power of two, at most half full; linear probing
};

}  // namespace tw::models
