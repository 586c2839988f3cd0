import { getList } from "../json.ts";
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from "../kinds/role.ts";
import { buildBucketName, buildKey } from "../resource.ts";
import type { ObjectStore } from "../store.ts";
import { getKeyNamespace } from "../watch-events.ts";
import type { RoleBook } from "./decide-access.ts";

/** Reads the current roles and bindings. */
export function makeRoleBook(store: ObjectStore): RoleBook {
  return {
    bindings: (namespace) => {
      const everywhere = store.entries(buildBucketName(clusterRoleBindings)).map(([, binding]) => binding);
      if (namespace === "") return everywhere;
      const inside = store.entries(buildBucketName(roleBindings)).filter(([key]) => getKeyNamespace(key) === namespace);
      return [...everywhere, ...inside.map(([, binding]) => binding)];
    },
    rulesOf: (kind, namespace, name) => {
      const role =
        kind === "Role"
          ? store.get(buildBucketName(roles), buildKey(namespace, name))
          : store.get(buildBucketName(clusterRoles), buildKey("", name));
      return getList(role, "rules");
    },
  };
}
