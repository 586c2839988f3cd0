import type { Signer } from "@muster/leases/keys";
import type { Cli } from "../cli.ts";
import { buildFacts } from "../domain/build-facts.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { print, type Format } from "./output.ts";

type KeyOptions = { readonly keyFile: string | undefined; readonly output: Format };

/** `muster keys new` */
export async function newKey(cli: Cli, { keyFile, output }: KeyOptions): Promise<ExitCode> {
  const { signer, file } = await cli.keys.make(keyFile);
  show(cli, signer, file, output);
  const used = cli.keys.whereIs(keyFile);
  if ("variable" in used) cli.io.err([`note: ${used.variable} is set, and goes before this file`]);
  return EXIT.ok;
}

/** `muster keys show` */
export async function showKey(cli: Cli, { keyFile, output }: KeyOptions): Promise<ExitCode> {
  const signer = await cli.keys.read(keyFile);
  const used = cli.keys.whereIs(keyFile);
  show(cli, signer, "file" in used ? used.file : used.variable, output);
  return EXIT.ok;
}

/** What everybody may know. */
function show({ io }: Cli, { userId, publicKey }: Signer, from: string, output: Format): void {
  const hex = Buffer.from(publicKey).toString("hex");
  print(io, output, {
    table: () =>
      buildFacts([
        ["user", userId],
        ["public key", hex],
        ["private key", `in ${from}`],
      ]),
    data: () => ({ user: userId, publicKey: hex, from }),
  });
}
