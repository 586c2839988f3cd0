import type { Cli } from "../cli.ts";
import { buildSessionSchema, writeSchema } from "../domain/build-session-schema.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";

/** `muster schema`: the JSON Schema of documents, which is the text of schemas/session.schema.json. */
export function schema(cli: Cli): ExitCode {
  cli.io.out([writeSchema(buildSessionSchema()).trimEnd()]);
  return EXIT.ok;
}
