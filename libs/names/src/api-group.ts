/** The API group of Muster's own kinds, which also begins the names of its labels and annotations. */
export const API_GROUP = "muster.dev";
