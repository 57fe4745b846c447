// One value as Python's format(value, spec) writes it.
#include "tilewright/models/chat_template/field_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

constexpr int64_t kMaxPrecision = 300;  // digits of a number
constexpr std::string_view kIntegerTypes = "bcdoxX";

FieldSpec parse_spec(Sandbox& sandbox, std::string_view text) {
  FieldSpec spec;
  bool has_fill = false;
  size_t pos = 0;
  const auto skip = [&](char c) { return pos < text.size() && text[pos] == c && ++pos > 0; };
  if (!text.empty()) {
    size_t after = 0;
    next_code_point(text, after);
    if (after < text.size() && is_one_of(text[after], "<>^=")) {
      spec.fill = text.substr(0, after);
      has_fill = true;
      spec.align = text[after];
      pos = after + 1;
    } else if (is_one_of(text[0], "<>^=")) {
      spec.align = text[pos++];
    }
  }
  if (pos < text.size() && is_one_of(text[pos], "+- ")) spec.sign = text[pos++];
  spec.alternate = skip('#');
  spec.zero = skip('0');
  if (spec.zero && !has_fill) spec.fill = "0";
  spec.width = std::max<int64_t>(take_number(sandbox, text, pos, kMaxWidth), 0);
  if (pos < text.size() && is_one_of(text[pos], ",_")) spec.grouping = text[pos++];
  if (skip('.')) {
    spec.precision = take_number(sandbox, text, pos, kMaxWidth);
    if (spec.precision < 0) sandbox.fail("format specifier missing precision");
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos < text.size()) sandbox.fail("invalid format specifier " + quote_start(text));
  return spec;
}

/// Fills `body` to the field's width; '=' fills between the first `prefix` bytes and the rest.
Value pad(Sandbox& sandbox, const FieldSpec& spec, char default_align, std::string body,
          size_t prefix) {
  const char align = spec.align == 0 ? default_align : spec.align;
  const int64_t missing = std::max<int64_t>(spec.width - count_code_points(body), 0);
  sandbox.charge(size_t(missing), spec.fill.size());
  sandbox.charge(body.size());
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string before, after;
  for (int64_t i = 0; i < left; ++i) before += spec.fill;
  for (int64_t i = left; i < missing; ++i) after += spec.fill;
  if (align == '=') return sandbox.adopt(body.substr(0, prefix) + before + body.substr(prefix));
  return sandbox.adopt(before + body + after);
}

}  // namespace

bool is_one_of(char c, std::string_view set) {
  return c != 0 && set.find(c) != std::string_view::npos;
}

int64_t take_number(Sandbox& sandbox, std::string_view text, size_t& pos, int64_t most) {
  int64_t value = -1;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    value = std::max<int64_t>(value, 0) * 10 + (text[pos++] - '0');
    if (value > most) sandbox.fail("a number in a format is above " + std::to_string(most));
  }
  return value;
}

Value format_text(Sandbox& sandbox, std::string_view text, const FieldSpec& spec) {
  if (spec.type != 0 && spec.type != 's') {
    sandbox.fail("unknown format code " + quote(std::string(1, spec.type)) + " for a string");
  }
  if (spec.align == '=') sandbox.fail("'=' alignment of a string");
  if (spec.sign != 0 || spec.alternate || spec.grouping != 0) {
    sandbox.fail("sign, '#' and ',' are not allowed in the format of a string");
  }
  sandbox.scan(text.size() * 8);
  CodePoints points{text, count_code_points(text)};
  if (spec.precision >= 0 && spec.precision < points.length) text = points.slice(0, spec.precision);
  return pad(sandbox, spec, '<', std::string(text), 0);
}

namespace {

/// Digits of a number with a separator between groups, counted from the decimal point.
std::string group_digits(std::string_view digits, char separator, size_t size) {
  const size_t whole = std::min(digits.find_first_of(".eE%"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i != 0 && (whole - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out.append(digits.substr(whole));
}

/// Zeros in front, so many that the digits and the separators between groups are that wide.
std::string fill_groups(Sandbox& sandbox, const std::string& digits, int64_t width, size_t size) {
  const size_t whole = std::min(digits.find_first_of(".eE%"), digits.size());
  size_t more = 0;
  while (int64_t(digits.size() + more + (whole + more - 1) / size) < width) ++more;
  sandbox.charge(more);
  return std::string(more, '0') + digits;
}

Value finish_number(Sandbox& sandbox, const FieldSpec& spec, bool negative, std::string prefix,
                    std::string digits, size_t group_size) {
  if (negative) {
    prefix.insert(0, "-");
  } else if (is_one_of(spec.sign, "+ ")) {
    prefix.insert(0, 1, spec.sign);
  }
  if (spec.grouping != 0) {
    const bool zeros = spec.fill == "0" && (spec.align == '=' || (spec.zero && spec.align == 0));
    if (zeros)
      digits = fill_groups(sandbox, digits, spec.width - int64_t(prefix.size()), group_size);
    digits = group_digits(digits, spec.grouping, group_size);
  }
  const size_t fixed = prefix.size();
  return pad(sandbox, spec, spec.zero ? '=' : '>', prefix + digits, fixed);
}

std::string upper_case(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return text;
}

/// |value| with so many digits, as C's printf and Python write it.
std::string print_float(double value, std::chars_format format, int64_t precision) {
  std::array<char, 1024> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, int(precision));
  return {buffer.data(), end.ptr};
}

std::string without_zeros(std::string digits) {
  const size_t exponent = std::min(digits.find('e'), digits.size());
  std::string mantissa = digits.substr(0, exponent);
  if (mantissa.find('.') != std::string::npos) {
    while (mantissa.ends_with('0')) mantissa.pop_back();
    if (mantissa.ends_with('.')) mantissa.pop_back();
  }
  return mantissa + digits.substr(exponent);
}

/// Significant digits: fixed where the decimal exponent is in -4 .. precision - 1 - `reserve`.
std::string general_digits(double value, int64_t precision, bool keep_zeros, int reserve) {
  const int64_t digits = std::max<int64_t>(precision, 1);
  std::string text = print_float(value, std::chars_format::scientific, digits - 1);
  int exponent = 0;
  const size_t at = text.find('e') + 1;
  std::from_chars(text.data() + at + size_t(text[at] == '+'), text.data() + text.size(), exponent);
  if (exponent >= -4 && exponent < digits - reserve) {
    text = print_float(value, std::chars_format::fixed, digits - 1 - exponent);
  }
  return keep_zeros ? text : without_zeros(text);
}

}  // namespace

Value format_float_as(Sandbox& sandbox, double value, const FieldSpec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double size = std::abs(value);
  const char type = spec.type == 0 ? 0 : char(spec.type | 0x20);
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  if (precision > kMaxPrecision)
    sandbox.fail("a precision above 300 is not supported", ErrorKind::kUnsupported);
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
  } else if (type == 'e') {
    digits = print_float(size, std::chars_format::scientific, precision);
  } else if (type == 'f') {
    digits = print_float(size, std::chars_format::fixed, precision);
  } else if (type == 'g') {
    digits = general_digits(size, precision, spec.alternate, 0);
  } else if (spec.type == '%') {
    digits = print_float(size * 100, std::chars_format::fixed, precision);
  } else if (spec.precision < 0) {
    digits = chat_template::format_float(size);
  } else {  // as g, with a digit behind the point
    digits = general_digits(size, precision, spec.alternate, 1);
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  }
  if (spec.alternate && digits.find('.') == std::string::npos && std::isfinite(value)) {
    sandbox.fail("'#' without digits behind the point is not supported", ErrorKind::kUnsupported);
  }
  if (spec.type == '%') digits += '%';
  if (is_one_of(spec.type, "EFG")) digits = upper_case(digits);
  return finish_number(sandbox, spec, negative, "", std::move(digits), 3);
}

Value format_integer(Sandbox& sandbox, int64_t value, const FieldSpec& spec) {
  if (is_one_of(spec.type, kFloatTypes)) return format_float_as(sandbox, double(value), spec);
  if (spec.type != 0 && !is_one_of(spec.type, kIntegerTypes)) {
    sandbox.fail("unknown format code " + quote(std::string(1, spec.type)) + " for an integer");
  }
  if (spec.precision >= 0) sandbox.fail("precision not allowed in the format of an integer");
  if (spec.type == 'c') {
    const bool valid = value >= 0 && value < 0x110000 && (value < 0xD800 || value > 0xDFFF);
    if (!valid || spec.sign != 0 || spec.grouping != 0)
      sandbox.fail("'c' needs the number of a character");
    std::string text;
    append_utf8(text, char32_t(value));
    return pad(sandbox, spec, spec.zero ? '=' : '>', std::move(text), 0);
  }
  const int base = spec.type == 'b'             ? 2
                   : spec.type == 'o'           ? 8
                   : is_one_of(spec.type, "xX") ? 16
                                                : 10;
  if (spec.grouping == ',' && base != 10) sandbox.fail("cannot specify ',' with this type");
  const uint64_t size = value < 0 ? uint64_t{0} - uint64_t(value) : uint64_t(value);
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), size, base);
  std::string digits(buffer.data(), end.ptr);
  std::string prefix;
  if (spec.alternate && base != 10) prefix = {'0', spec.type};
  if (spec.type == 'X') digits = upper_case(digits);
  return finish_number(sandbox, spec, value < 0, prefix, std::move(digits), base == 10 ? 3 : 4);
}

namespace {

/// 'n' is the plain type where no locale is set.
void take_locale(Sandbox& sandbox, FieldSpec& spec, char plain) {
  if (spec.type != 'n') return;
  if (spec.grouping != 0) sandbox.fail("cannot group digits with 'n'");
  spec.type = plain;
}

}  // namespace

Value format_value(Sandbox& sandbox, const Value& value, std::string_view text) {
  if (text.empty()) return sandbox.adopt(to_text(sandbox, value));
  FieldSpec spec = parse_spec(sandbox, text);
  if (value.is_string()) return format_text(sandbox, value.text(), spec);
  if (value.is_integral()) {
    take_locale(sandbox, spec, 'd');
    if (spec.type == 's') sandbox.fail("unknown format code 's' for an integer");
    return format_integer(sandbox, value.integer(), spec);
  }
  if (value.is(Type::kFloat)) {
    take_locale(sandbox, spec, 'g');
    if (spec.type != 0 && !is_one_of(spec.type, kFloatTypes)) {
      sandbox.fail("unknown format code " + quote(std::string(1, spec.type)) + " for a float");
    }
    return format_float_as(sandbox, value.real(), spec);
  }
  sandbox.fail("a format for " + quote(type_name(value)) + " must be empty");
}

}  // namespace tw::models::chat_template
