/**
 * `npm run compose-cluster -- KUBECONFIG`: lets docker-compose.yml use your cluster, with only the rights that each service needs. Writes the kubeconfigs that
 * the container `setup` copies to the services into .muster-compose/cluster.
 */
import { resolve, join } from "node:path";
import { parseArgs } from "node:util";
import { STANDARD } from "@muster/repo/services";
import { refuseBesideAnother } from "../../another-muster.ts";
import { grantAccess } from "../../cluster-access.ts";
import { ROOT } from "../../root.ts";

/** Requested lifetime of the tokens; a cluster may shorten it. */
const TOKEN_SECONDS = 30 * 86_400;
const CHECK_TIMEOUT_MS = 30_000;

const { positionals } = parseArgs({ allowPositionals: true });
const [kubeconfig] = positionals;
if (kubeconfig === undefined || positionals.length > 1) {
  console.error("usage: npm run compose-cluster -- KUBECONFIG");
  process.exitCode = 2;
} else {
  const directory = process.env["MUSTER_COMPOSE_DIRECTORY"] ?? join(ROOT, ".muster-compose");
  await refuseBesideAnother(resolve(kubeconfig), AbortSignal.timeout(CHECK_TIMEOUT_MS));
  const { files, untilMs } = await grantAccess(resolve(kubeconfig), join(directory, "cluster"), {
    services: STANDARD,
    seconds: TOKEN_SECONDS,
  });
  for (const [service, file] of files) console.log(`${service}: ${file ?? "needs no access"}`);
  console.log(`good until ${new Date(untilMs).toISOString()}: then run this command and \`docker compose up\` again`);
}
