import { showAudit } from "../commands/audit.ts";
import { splitTarget } from "../kinds/resources.ts";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { argument, defineCommand, option } from "./command-row.ts";
import { parseDurationArgument } from "./parse-values.ts";
import { showSetAudit } from "./set-commands.ts";
import { LIMIT, OUTPUT } from "./shared-options.ts";

export const AUDIT = defineCommand({
  name: "audit",
  description: "List the changes through the gateway, or the changes of one replica set.",
  arguments: [
    argument("[set]", "a replica set, also as replica-set/NAME; default: all changes through the gateway"),
    argument("[name]", "the name, after the kind: replica-set NAME"),
  ],
  options: {
    since: option("--since <duration>", "only changes within this time before now, such as 24h", parseDurationArgument),
    user: option("--user <name>", "only changes by this user"),
    resource: option("--resource <plural>", "only changes of this resource or object: sessions, or sessions/NAME"),
    refused: option("--refused", "only changes that the gateway refused; default: those that it sent to a service"),
    limit: LIMIT,
    follow: option("-f, --follow", "also print later changes, until Ctrl-C; with -o json one line per change"),
    output: OUTPUT,
  },
  text: `The newest is last. Options other than --limit and -o are for changes
through the gateway: who, what, from where, and with which outcome.
Resources are those of roles: sessions, jobs, replicasets, rolls, leases, nodes.
The outcome is unknown of a change that is in flight, or whose gateway has ended
before it had the answer of the service. Through the gateway it needs the right
to list audits.`,
  examples: [
    "muster audit",
    "muster audit --since 24h --user oidc:ada",
    "muster audit --resource jobs/training -o json",
    "muster audit --refused",
    "muster audit -f",
    "muster audit web",
    "muster audit web -o json | jq '.[].event'",
  ],
  run: (cli, [set, second], { since, user = "", resource: target = "", refused, ...options }) => {
    if (set !== undefined) {
      if (since !== undefined || user !== "" || target !== "" || refused || options.follow)
        throw new CommandError(EXIT.usage, "the audit of a replica set has only the options --limit and -o", {
          hint: `\`muster audit --resource replicasets/${set}\` lists its changes through the gateway`,
        });
      return showSetAudit(cli, [set, second], options);
    }
    const { word, name } = splitTarget(target);
    const resource = target.includes("/") ? word : target;
    const sinceMs = since === undefined ? 0 : cli.now() - since;
    const query = { user, resource, name: target.includes("/") ? name : "", sinceMs, refused };
    return showAudit(cli, { query, ...options });
  },
});
