"""The methods that papers compare, one file each, faithful to their definitions and with an honest rigor."""

from lipaudit.spectral.published import (  # noqa: F401  each registers its method
    araujo2021,
    bibi2019,
    delattre2023,
    delattre2024,
    farnia2019,
    gouk2021,
    gram,
    miyato2018,
    ryu2019,
    sedghi2019,
    singla2021,
    tsuzuku2018,
    yi2020,
    yoshida2017,
)
