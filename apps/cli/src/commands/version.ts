import type { CommandLine } from "../kinds/resources.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import {
  buildServiceVersions,
  buildVersionLines,
  isSupportedSkew,
  type ServiceVersions,
} from "../domain/build-versions.ts";
import { VERSION } from "../version.ts";
import { printForms, type Format } from "./output.ts";

/** `muster version`: prints the version of this command and, unless `isClientOnly`, of each service. If no server answers, rejects after printing its own. */
export async function printVersion(cli: CommandLine, format: Format, isClientOnly: boolean): Promise<ExitCode> {
  const own = { muster: VERSION, node: process.versions.node };
  const ownLines = [`muster ${own.muster}`, `node ${own.node}`];
  if (isClientOnly) {
    printForms(cli.io, format, { table: () => ownLines, data: () => own });
    return EXIT.ok;
  }
  const services = await readServices(cli).catch((error: unknown) => {
    printForms(cli.io, format, { table: () => ownLines, data: () => own });
    throw error;
  });
  printForms(cli.io, format, {
    table: () => [...ownLines, ...buildVersionLines(services)],
    data: () => ({ ...own, services }),
  });
  if (services.length === 0)
    cli.io.err([
      "note: no service reports its version; a gateway that is older than this command does not report theirs",
    ]);
  const apart = services.filter(({ versions }) => versions.some((each) => !isSupportedSkew(VERSION, each)));
  if (apart.length > 0) {
    const names = apart.map(({ service }) => service).join(", ");
    cli.io.err([
      `warning: ${names}: more than one minor version apart from this command; use a command of their version`,
    ]);
  }
  return EXIT.ok;
}

async function readServices(cli: CommandLine): Promise<ServiceVersions[]> {
  await using connected = await cli.connect();
  return buildServiceVersions(await connected.replicas());
}
