// tilewright completion: a bash script that completes subcommands, their options, and file names.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/cli/commands.h"

namespace tw::cli {
namespace {

std::string options_of(const CLI::App& app) {
  std::string words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words += " --" + name;
    for (const std::string& name : option->get_snames()) words += " -" + name;
  }
  return words;
}

std::string bash_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    names += " " + command->get_name();
    cases += "    " + command->get_name() + ") words='" + options_of(*command) + "' ;;\n";
  }
  return "_tilewright() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
         "  case ${COMP_CWORD}:${COMP_WORDS[1]} in\n"
         "    1:*) mapfile -t COMPREPLY < <(compgen -W '" +
         options_of(app) + names +
         "' -- \"$word\"); return ;;\n"
         "  esac\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  if [[ $word == -* ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "  else\n"
         "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
         "  fi\n"
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
