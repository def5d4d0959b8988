"""Whether older tasks score higher than newer ones, and whether that follows a model's own cut-off."""

from race.core.contamination.eras import BANDS, EraTask, band_of
from race.core.contamination.gap import Band, Gap, era_gap
from race.core.contamination.study import Study, study_eras

__all__ = ["BANDS", "Band", "EraTask", "Gap", "Study", "band_of", "era_gap", "study_eras"]
