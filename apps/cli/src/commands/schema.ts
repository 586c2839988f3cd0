import type { Cli } from "../cli.ts";
import { writeSchema } from "../domain/build-session-schema.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { Kind } from "../kinds/kind.ts";

/** `muster schema [KIND]`: the JSON Schema of its documents, which is the text of schemas/KIND.schema.json. */
export function schema(cli: Cli, read: Kind["schema"]): ExitCode {
  if (read !== undefined) cli.io.out([writeSchema(read()).trimEnd()]);
  return EXIT.ok;
}
