import { listAt } from "../json.ts";
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from "../kinds/role.ts";
import { bucketOf, keyOf } from "../resource.ts";
import type { ObjectStore } from "../store.ts";
import { keyNamespace } from "../watch-events.ts";
import type { RoleBook } from "./decide-access.ts";

/** Reads the current roles and bindings. */
export function roleBook(store: ObjectStore): RoleBook {
  return {
    bindings: (namespace) => {
      const everywhere = store.entries(bucketOf(clusterRoleBindings)).map(([, binding]) => binding);
      if (namespace === "") return everywhere;
      const inside = store.entries(bucketOf(roleBindings)).filter(([key]) => keyNamespace(key) === namespace);
      return [...everywhere, ...inside.map(([, binding]) => binding)];
    },
    rulesOf: (kind, namespace, name) => {
      const role =
        kind === "Role"
          ? store.get(bucketOf(roles), keyOf(namespace, name))
          : store.get(bucketOf(clusterRoles), keyOf("", name));
      return listAt(role, "rules");
    },
  };
}
