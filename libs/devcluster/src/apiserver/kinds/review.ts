import { type JsonObject, objectAt } from "../json.ts";
import { defineResource, type Resource } from "../resource.ts";
import { fail, invalid, invalidValue } from "../status.ts";

/** The one user of the server, who may do everything. */
const USER: JsonObject = { username: "admin", groups: ["system:masters", "system:authenticated"] };
const RULES: JsonObject = {
  resourceRules: [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }],
  nonResourceRules: [{ verbs: ["*"], nonResourceURLs: ["*"] }],
  incomplete: false,
};

/** `kubectl auth can-i`. */
export const accessReviews: Resource = defineResource({
  group: "authorization.k8s.io",
  kind: "SelfSubjectAccessReview",
  plural: "selfsubjectaccessreviews",
  namespaced: false,
  columns: [],
  answer: (review) => {
    const { resourceAttributes, nonResourceAttributes } = objectAt(review, "spec");
    if ((resourceAttributes === undefined) === (nonResourceAttributes === undefined)) {
      const because = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
      const problem = invalidValue("spec.resourceAttributes", null, because);
      return fail(invalid({ group: "authorization.k8s.io", kind: "" }, "", [problem]));
    }
    return { metadata: {}, ...review, status: { allowed: true } };
  },
});

/** `kubectl auth can-i --list`. */
export const rulesReviews: Resource = defineResource({
  group: "authorization.k8s.io",
  kind: "SelfSubjectRulesReview",
  plural: "selfsubjectrulesreviews",
  namespaced: false,
  columns: [],
  answer: (review) => ({ metadata: {}, ...review, spec: {}, status: RULES }),
});

/** `kubectl auth whoami`. */
export const subjectReviews: Resource = defineResource({
  group: "authentication.k8s.io",
  kind: "SelfSubjectReview",
  plural: "selfsubjectreviews",
  namespaced: false,
  columns: [],
  answer: (review) => ({ metadata: {}, ...review, status: { userInfo: USER } }),
});
