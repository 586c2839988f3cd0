import { expect, it } from "vitest";
import { buildManPage } from "./build-man-page.ts";

it("has a section for each command, whose lines contain no macros", () => {
  const entries = [
    { name: "muster", help: "Usage: muster\n" },
    { name: "muster run", help: ".a line\n'b\nC:\\x --wait\n" },
  ];
  expect(buildManPage(entries, "Runs work.", "1.0.0").split("\n")).toEqual([
    '.TH MUSTER 1 "" "muster 1.0.0" "Muster"',
    ".SH NAME",
    "muster \\- Runs work.",
    ".SH SYNOPSIS",
    ".B muster",
    "[options] [command]",
    ".SH DESCRIPTION",
    ...[".nf", "Usage: muster", ".fi"],
    ".SH COMMANDS",
    ".SS muster run",
    ...[".nf", "\\&.a line", "\\&'b", "C:\\ex \\-\\-wait", ".fi"],
  ]);
});
