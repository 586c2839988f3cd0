import type { Command } from "commander";
import { buildManPage, type ManualEntry } from "../domain/build-man-page.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { CommandLine } from "../kinds/resources.ts";
import { VERSION } from "../version.ts";

/** `muster __man`: prints the manual page, from the help of every visible command. */
export function printManual(cli: CommandLine, program: Command): ExitCode {
  cli.io.out([buildManPage(entriesOf(program, "muster"), program.description(), VERSION)]);
  return EXIT.ok;
}

function entriesOf(command: Command, name: string): ManualEntry[] {
  const visible = new Set(command.createHelp().visibleCommands(command));
  const inner = command.commands.filter((each) => visible.has(each));
  return [{ name, help: helpOf(command) }, ...inner.flatMap((each) => entriesOf(each, `${name} ${each.name()}`))];
}

/** Captures the printed help, because commander adds the examples only when it prints. */
function helpOf(command: Command): string {
  const written: string[] = [];
  const before = command.configureOutput();
  command.configureOutput({ writeOut: (text) => void written.push(text) });
  command.outputHelp();
  command.configureOutput(before);
  return written.join("");
}
