/** The manual's entry of a command; `help` is the output of `--help`. */
export type ManualEntry = { readonly name: string; readonly help: string };

/** Builds a page for man(1) with the macros of man(7). The first entry is the command itself, the others are its subcommands. */
export function buildManPage(entries: readonly ManualEntry[], description: string, version: string): string {
  const [whole, ...commands] = entries;
  const lines = [
    `.TH MUSTER 1 "" "muster ${version}" "Muster"`,
    ".SH NAME",
    `muster \\- ${escapeRoff(description)}`,
    ".SH SYNOPSIS",
    ".B muster",
    "[options] [command]",
    ".SH DESCRIPTION",
    ...verbatim(whole?.help ?? ""),
    ".SH COMMANDS",
    ...commands.flatMap(({ name, help }) => [`.SS ${escapeRoff(name)}`, ...verbatim(help)]),
  ];
  return lines.join("\n");
}

function verbatim(text: string): string[] {
  return [".nf", ...text.trimEnd().split("\n").map(escapeRoff), ".fi"];
}

/** roff reads a line that starts with a dot or an apostrophe as a macro. */
function escapeRoff(line: string): string {
  return line.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^[.']/, "\\&$&");
}
