/**
 * `npm run compose-cluster -- KUBECONFIG`: lets docker-compose.yml use a cluster of yours, with no more rights there than each service needs. Writes into
 * .muster-compose/cluster what the container `setup` gives to the services.
 */
import { resolve, join } from "node:path";
import { parseArgs } from "node:util";
import { STANDARD } from "@muster/repo/services";
import { refuseBesideAnother } from "../../another-muster.ts";
import { grantAccess } from "../../cluster-access.ts";
import { ROOT } from "../../root.ts";

/** Clusters may allow less. */
const SECONDS = 30 * 86_400;
const LOOK_MS = 30_000;

const { positionals } = parseArgs({ allowPositionals: true });
const [kubeconfig] = positionals;
if (kubeconfig === undefined || positionals.length > 1) {
  console.error("usage: npm run compose-cluster -- KUBECONFIG");
  process.exitCode = 2;
} else {
  const directory = process.env["MUSTER_COMPOSE_DIRECTORY"] ?? join(ROOT, ".muster-compose");
  await refuseBesideAnother(resolve(kubeconfig), AbortSignal.timeout(LOOK_MS));
  const { files, untilMs } = await grantAccess(resolve(kubeconfig), join(directory, "cluster"), {
    services: STANDARD,
    seconds: SECONDS,
  });
  for (const [service, file] of files) console.log(`${service}: ${file ?? "needs no access"}`);
  console.log(`good until ${new Date(untilMs).toISOString()}: then do this and \`up\` again`);
}
