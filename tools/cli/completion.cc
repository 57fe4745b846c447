// tilewright completion: a bash script that completes subcommands, their options, and file names.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/cli/commands.h"

namespace tw::cli {
namespace {

/// The options of a command, and its subcommands with theirs; a group of options has no name.
std::string words_of(const CLI::App& app) {
  std::string words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words += " --" + name;
    for (const std::string& name : option->get_snames()) words += " -" + name;
  }
  for (const CLI::App* part : app.get_subcommands(nullptr)) {
    if (!part->get_name().empty()) words += " " + part->get_name();
    words += words_of(*part);
  }
  return words;
}

std::string bash_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name().empty()) continue;
    names += " " + command->get_name();
    cases += "    " + command->get_name() + ") words='" + words_of(*command) + "' ;;\n";
  }
  std::string options;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) options += " --" + name;
  return "_tilewright() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
         "  case ${COMP_CWORD}:${COMP_WORDS[1]} in\n"
         "    1:*) mapfile -t COMPREPLY < <(compgen -W '" +
         options + names +
         "' -- \"$word\"); return ;;\n"
         "  esac\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "  [[ $word == -* ]] ||\n"
         "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$word\")\n"
         "}\n"
         "complete -o filenames -F _tilewright tilewright\n";
}

}  // namespace

void add_completion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for bash");
  command->footer("Example: source <(tilewright completion)");
  command->callback([&app] { std::fputs(bash_script(app).c_str(), stdout); });
}

}  // namespace tw::cli
